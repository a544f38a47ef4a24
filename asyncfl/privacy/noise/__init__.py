"""NbAFL's noise (`server_noise`), weights of clients in published models (`client_weights`), and drawing of noise."""
