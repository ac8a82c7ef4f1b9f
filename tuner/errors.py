"""The one error of `tuner` that is meant for users."""


class UserError(ValueError):
    """Something the user can put right: says in one or two lines which rule, which value and what to type instead.

    The command line prints it without a traceback and exits with status 2.
    """
