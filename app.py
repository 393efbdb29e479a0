"""Opens the page: ``python app.py``. Knows nothing itself; ``app/launch.py`` does the work."""

from app.launch import main

if __name__ == "__main__":
    main()
