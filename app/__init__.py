"""The page: a Gradio shell around the player in ``app/static``. Imports no torch before a run."""
