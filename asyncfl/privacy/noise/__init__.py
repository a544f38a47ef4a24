"""How much noise a budget needs, how much of it is in a published model, and drawing it.

`calibration` is noise for an epsilon, Gaussian and Laplace; `server_noise` NbAFL's; `shares` what a client's updates
weigh in a model; `drawing` adds the noise.
"""
