from importlib.util import find_spec

collect_ignore = [] if find_spec("mlflow") else ["test_mlflow_tracker.py"]  # an extra that few need
