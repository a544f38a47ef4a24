"""Budgets of each client's own that follow its loss, a server that adds what is missing, and a trusted shuffler.

Source: Xu, Tong, Dai, Research on Federated Learning Adaptive Differential Privacy Method Based on Heterogeneous Data,
Netinfo Security 25(1), 2025. `scheme` is the component, `formulas` its formulas as plain functions, `shuffle` the
shuffler.
"""
