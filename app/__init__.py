"""The page: a Gradio shell around a player in the browser (``app/static``). torch stays out until somebody runs."""
