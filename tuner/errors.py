"""The one error of `tuner` that is meant for users, and its commonest form."""


class UserError(ValueError):
    """Something the user can put right: says in one or two lines which rule, which value and what to type instead.

    The command line prints it without a traceback and exits with status 2.
    """


def require(condition: bool, key: str, value: object, rule: str) -> None:
    """Refuses the value of a setting unless it is within the rule.

    Raises:
        UserError: Names setting, value and rule.
    """
    if not condition:
        raise UserError(f"{key}={value} is not possible: it must be {rule}")
