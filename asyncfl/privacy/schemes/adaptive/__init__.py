"""Per-client budgets that follow the loss, server noise up to a global threshold, and a trusted shuffler.

Source: Xu, Tong, Dai, Research on Federated Learning Adaptive Differential Privacy Method Based on Heterogeneous Data,
Netinfo Security 25(1), 2025. `adaptive_budgets` is the scheme, `formulas` has its formulas as plain functions,
`shuffle` the shuffler.
"""
