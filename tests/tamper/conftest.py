"""Whole trials in both sandboxes."""

from helpers.grading import backend as backend
from helpers.grading import build as build
from helpers.grading import grade as grade
from helpers.grading import image as image
