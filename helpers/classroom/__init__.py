"""The teacher's room: hand out a student edition, grade a class, report, export."""
