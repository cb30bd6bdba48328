"""Sweeps of published recipes, made small enough for given GPUs and hours.

    text = write_recipe(Request("paper_1_5b", parse_machine("8xH100"), hours=40))

Pure: the same arguments give the same bytes. Times and memory are computed from data sheets; a probe measures them.
"""

from sweep_service.recipes.fitted_sweep import Request
from sweep_service.recipes.machines import CARDS, RecipeError, parse_machine
from sweep_service.recipes.recipe import KNOWN, MATH_SUB, RECIPES, ModelShape, Problems, Recipe, problems_of, shape_of
from sweep_service.recipes.recipe_text import write_recipe

__all__ = [
    "CARDS",
    "KNOWN",
    "MATH_SUB",
    "RECIPES",
    "ModelShape",
    "Problems",
    "Recipe",
    "RecipeError",
    "Request",
    "parse_machine",
    "problems_of",
    "shape_of",
    "write_recipe",
]
