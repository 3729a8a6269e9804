"""What is said of a scene is true of it, and near misses are not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scenes.scene_words import true_of

from beholder import scenes
from beholder._errors import OptionError, UnknownNameError
from beholder.scenes import Background, Claim, Mention, Scene, SceneObject

CAT = SceneObject("cat", 0.2, 0.2, 0.3)
DOG = SceneObject("dog", 0.7, 0.75, 0.5)
TWO = Scene((CAT, DOG), Background("blue", "striped"))


@pytest.mark.parametrize("detail", [0.0, 0.5, 1.0])
def test_captions_are_true_of_their_scenes(detail: float) -> None:
    rng = np.random.default_rng(5)
    for seed in range(300):
        scene = scenes.sample_scene(seed)
        text = scenes.caption(scene, rng, detail=detail)
        assert true_of(text, scene), (text, scene)


def test_every_template_says_the_same() -> None:
    for seed in range(40):
        scene = scenes.sample_scene(seed)
        claim = scenes.describe(scene, seed, detail=1.0)
        texts = {claim.text(name) for name in scenes.TEMPLATES}
        assert len(texts) == len(scenes.TEMPLATES)
        assert all(true_of(text, scene) for text in texts)


@pytest.mark.parametrize("kind", scenes.CONTRADICTIONS)
def test_near_misses_are_false(kind: str) -> None:
    made = 0
    for seed in range(400):
        scene = scenes.sample_scene(seed)
        claim = scenes.describe(scene, seed, detail=1.0)
        wrong = scenes.contradict(claim, scene, seed, kind=kind)
        if wrong is not None:
            made += 1
            assert not true_of(wrong.text("photo"), scene), (wrong.text(), scene)
            assert wrong != claim
    assert made >= 10


def test_claims_agree_with_the_reader_on_other_scenes() -> None:
    drawn = [
        scenes.sample_scene(seed, scenes.SceneOptions(names=("cat", "dog"), colors=("red", "blue")))
        for seed in range(60)
    ]
    claims = [scenes.describe(scene, i, detail=0.7) for i, scene in enumerate(drawn)]
    verdicts = [(claim.holds(scene), true_of(claim.text(), scene)) for claim in claims for scene in drawn]
    assert all(ours == theirs for ours, theirs in verdicts)
    assert 0 < sum(ours for ours, _ in verdicts) < len(verdicts)


def test_words_by_hand() -> None:
    assert Claim((Mention("cat", size="small", place="top left"),)).text() == "a small cat in the top left corner"
    assert (
        Claim((Mention("apple"),), color="orange").text("this")
        == "This is a photo of an apple on an orange background."
    )
    assert Claim((Mention("mouse", count=2),)).text("photo") == "a photo of two mice"
    claim = Claim((Mention("cat"), Mention("dog")), relation="above", color="blue", texture="striped")
    assert claim.text("depicts") == "A photo depicts a cat above a dog on a striped blue background."
    assert Claim(absent="owl").text("this") == "This is a photo without an owl."
    assert Claim(absent="owl", absent_article=False).text("this") == "This is a photo without owl."
    assert Claim(color="black").text("photo") == "a photo of a black background"
    three = Claim((Mention("cat"), Mention("dog"), Mention("owl", article=False)))
    assert three.text() == "a cat, a dog and owl"


def test_truth_by_hand() -> None:
    def says(**options: object) -> bool:
        return Claim((Mention("cat"), Mention("dog")), **options).holds(TWO)  # type: ignore[arg-type]

    assert says()
    assert says(relation="left of")
    assert says(relation="above")
    assert not says(relation="below")
    assert says(color="blue", texture="striped")
    assert not says(color="red")
    assert not says(color="blue", texture="dotted")
    assert says(absent="owl")
    assert not says(absent="dog")
    assert Claim((Mention("dog", size="large"),)).holds(TWO)
    assert not Claim((Mention("dog", size="small"),)).holds(TWO)
    assert not Claim((Mention("cat", count=2),)).holds(TWO)
    assert Claim((Mention("cat", place="top left"),)).holds(TWO)
    assert not Claim((Mention("cat", place="middle"),)).holds(TWO)


def test_a_scene_without_objects_is_described_by_its_background() -> None:
    scene = Scene((), Background("gray"))
    claim = scenes.describe(scene, 0)
    assert claim.mentions == ()
    assert "gray background" in claim.text()
    assert scenes.contradict(Claim(color="gray"), scene, 0, kind="object") is None


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="caption template"):
        Claim((Mention("cat"),)).text("poem")
    with pytest.raises(UnknownNameError, match="contradiction"):
        scenes.contradict(Claim(color="gray"), TWO, 0, kind="mood")
    with pytest.raises(OptionError, match="must say something"):
        Claim().text()
    with pytest.raises(UnknownNameError, match="Did you mean"):
        Mention("elephnt").words()


def test_captions_depend_on_the_seed_alone() -> None:
    scene = scenes.sample_scene(11)
    assert [scenes.caption(scene, seed) for seed in range(20)] == [scenes.caption(scene, seed) for seed in range(20)]
    assert len({scenes.caption(scene, seed) for seed in range(20)}) > 5
