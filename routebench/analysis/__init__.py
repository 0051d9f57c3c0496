"""What analyses are made of: the runs they read, the result they return, comparisons, figures, and numbers as text."""

from routebench import terminal

with terminal.unheard():  # Fontconfig, which it asks for fonts, tells of every folder that it cannot write to
    import matplotlib.font_manager  # noqa: F401
