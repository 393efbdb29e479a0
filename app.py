"""Opens the page: ``python app.py`` (``app/launch.py``)."""

if __name__ == "__main__":
    try:
        from app.launch import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
