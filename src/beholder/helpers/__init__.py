"""Calls for one job each, as the metrics page types them: face quality, face similarity, artness.

    score = compute_facescore("outputs/face.png", device="cuda")
    score = compute_facesim_cur(ref_paths=["ref/a.png"], gen_paths=["gen/a.png"], device="cuda")
    model = load_artscore_model(device="cuda")
    score = model(Image.open("sample.png"))

A result prints as its number; where there is none it prints its status, and `float()` raises an error that says why.
Models stay loaded between calls with the same settings, up to a few; `helpers.calls.release_models()` unloads them.
"""
