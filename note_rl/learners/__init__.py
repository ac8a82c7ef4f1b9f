"""The only place where tensors are touched: one learner per framework."""
