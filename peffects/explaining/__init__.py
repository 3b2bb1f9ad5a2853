"""What `explain` counts and draws: costs of loops, pages of HTML, rows of effects."""
