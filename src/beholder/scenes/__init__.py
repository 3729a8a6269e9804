"""Scenes of everyday objects, drawn from a seed: pictures, exact masks, and captions that are true of them."""

from beholder.scenes.captions import (
    CONTRADICTIONS,
    PLACES,
    RELATIONS,
    TEMPLATES,
    Claim,
    Mention,
    caption,
    contradict,
    describe,
)
from beholder.scenes.demo_set import GENERATORS, DemoItem, demo_set
from beholder.scenes.render import draw_background, masks, render, render_array, spoil
from beholder.scenes.sample import EDITS, SceneOptions, edit, place_object, sample_background, sample_scene
from beholder.scenes.scene import Background, Scene, SceneObject
from beholder.scenes.subject_set import SUBJECT_METHODS, SubjectConcept, SubjectItem, SubjectSet, subject_set
from beholder.scenes.subject_writer import write_subject_set
from beholder.scenes.vocabulary import COLORS, TEXTURES, Thing, categories, object_names, sprite, thing, things
from beholder.scenes.writer import write_demo_set

__all__ = [
    "COLORS",
    "CONTRADICTIONS",
    "EDITS",
    "GENERATORS",
    "PLACES",
    "RELATIONS",
    "SUBJECT_METHODS",
    "TEMPLATES",
    "TEXTURES",
    "Background",
    "Claim",
    "DemoItem",
    "Mention",
    "Scene",
    "SceneObject",
    "SceneOptions",
    "SubjectConcept",
    "SubjectItem",
    "SubjectSet",
    "Thing",
    "caption",
    "categories",
    "contradict",
    "demo_set",
    "describe",
    "draw_background",
    "edit",
    "masks",
    "object_names",
    "place_object",
    "render",
    "render_array",
    "sample_background",
    "sample_scene",
    "spoil",
    "sprite",
    "subject_set",
    "thing",
    "things",
    "write_demo_set",
    "write_subject_set",
]
