"""Opens the page: ``python app.py`` (``app/launch.py``)."""

from app.launch import main

if __name__ == "__main__":
    main()
