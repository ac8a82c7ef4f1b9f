"""What holds for all tests."""

import signal

# A shell's background jobs ignore Ctrl-C, and so would the processes in which tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
