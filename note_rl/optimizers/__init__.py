"""The same optimizers under the same argument names for both frameworks, so that one configuration fits both."""
