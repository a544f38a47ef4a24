"""From runs on disk to tables, figures and verdicts. Nothing here simulates or trains: it reads what runs wrote."""
