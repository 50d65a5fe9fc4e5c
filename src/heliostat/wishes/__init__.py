"""What operators wish of a link: durable on its target, written by any face on any machine."""
