output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.this.id
}

output "private_subnet_ids" {
  description = "Ids of the private subnets, one per zone."
  value       = [for subnet in aws_subnet.private : subnet.id]
}

output "public_subnet_ids" {
  description = "Ids of the public subnets, one per zone; empty without."
  value       = [for subnet in aws_subnet.public : subnet.id]
}
