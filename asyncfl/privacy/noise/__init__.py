"""NbAFL's noise (`server_noise`), what a client's updates weigh in a published model (`shares`), and drawing noise."""
