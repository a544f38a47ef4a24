"""Parts that every other package uses: errors, components, messages, random streams, files."""
