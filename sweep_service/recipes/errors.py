"""Why a recipe cannot be fitted."""

from sweep_service.errors import ServiceError


class RecipeError(ServiceError):
    """What was asked for does not exist or does not fit; the message says what would."""
