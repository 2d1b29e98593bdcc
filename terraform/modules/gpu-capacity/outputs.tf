output "name" {
  description = "Name of the capacity provider."
  value       = aws_ecs_capacity_provider.this.name
}
