"""Sweeps of published recipes, made small enough for given GPUs and hours.

    text = write_recipe(Request("paper_1_5b", parse_machine("8xH100"), hours=40))

Pure: the same arguments give the same bytes. Times and memory are computed from data sheets; a probe measures them.
"""

from sweep_service.recipes.machines import CARDS, RecipeError, parse_machine
from sweep_service.recipes.recipe import RECIPES, Request, find_model, find_problems
from sweep_service.recipes.recipe_text import write_recipe

__all__ = [
    "CARDS",
    "RECIPES",
    "RecipeError",
    "Request",
    "find_model",
    "find_problems",
    "parse_machine",
    "write_recipe",
]
