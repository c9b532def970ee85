"""The one exception of the language: a case, or a text that claims to be one, which says something impossible."""


class InvalidCase(ValueError):
    """A case that contradicts itself or exceeds a bound. Its message is one line a user can act on."""
