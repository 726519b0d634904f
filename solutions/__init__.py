"""What belongs in the blanks: one short module per notebook. Nothing here imports `helpers`."""
