"""The page: a Gradio shell around a browser player. Knows events and settings; torch stays out until somebody runs.

Contrary to the first plan there is no ``app/views``: live strips are DOM and live charts are Plotly in the browser
(``app/static``), because drawing on the server could not keep up with a decode; the server only sends traces.
"""
