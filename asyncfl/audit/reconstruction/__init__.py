"""What an eavesdropper makes of one overheard upload: images by division, images by descent, labels alone.

An update is taken for the gradient of one step over all of a client's images: exact for one step, and the further from
it the more local steps a task has.
"""
