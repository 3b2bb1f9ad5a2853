"""From the array IR to the loop IR: loops, accumulations, checks; a transformation a file.

No text is made here: that is `emit/`.
"""
