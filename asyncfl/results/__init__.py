"""What an experiment leaves on disk: tables of its runs, figures and verdicts from them, and a report of everything."""
