"""Serves the real page with the shipped recordings, for tests/test_browser_smollm2.py.

``smollm2_server.py PORT FOLDER``: SmolLM2's file is what FOLDER/file.json describes, in the wheel of the
index in FOLDER/url.txt; the cache is FOLDER/cache, and every loaded model is scripted.
``smollm2_server.py PORT FOLDER real``: the lab as it starts for everybody, with the user's cache.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]


def main() -> None:
    """Serve until killed."""
    port, folder = sys.argv[1], Path(sys.argv[2])
    if "real" in sys.argv:
        from app.launch import main as launch

        launch(["--host", "127.0.0.1", "--port", port])
        return
    os.environ |= {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "HF_HUB_OFFLINE": "0",  # or nothing may be fetched
        "HF_ENDPOINT": "http://127.0.0.1:9",  # where no hub answers
        "SPECDIFF_CACHE": str(folder / "cache"),
        "PIP_INDEX_URL": (folder / "url.txt").read_text(),
        "PIP_CONFIG_FILE": os.devnull,
    }
    from app_fakes import FakeDecoder

    from app.gradio_patches import skip_stubs

    skip_stubs()
    from app.launch import serve
    from app.page import build
    from app.run.engines import Engines
    from specdiff_core.schema.pairs import SMOLLM2
    from specdiff_core.schema.published import FILES, File

    FILES[SMOLLM2.target] = File(**json.loads((folder / "file.json").read_text()))
    engines = Engines(lambda pair, progress: FakeDecoder())
    serve(build(engines), server_name="127.0.0.1", server_port=int(port), quiet=True)


if __name__ == "__main__":
    main()
