"""Reconstruction of images and labels from one overheard upload.

Three attacks: division at a dense first layer, descent on the distance of gradients, and labels alone. All take the
update for the gradient of one step over all of a client's images. That is exact for one local step, and the less
accurate the more local steps a task has.
"""
