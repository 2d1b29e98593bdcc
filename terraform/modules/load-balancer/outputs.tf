output "arn" {
  description = "ARN of the load balancer, to associate a web ACL with."
  value       = aws_lb.this.arn
}

output "dns_name" {
  description = "Name that the clients' name is an alias of."
  value       = aws_lb.this.dns_name
}

output "target_group_arn" {
  description = "Target group of the routers; known when the listener that uses it is there."
  value       = aws_lb_listener.https.default_action[0].target_group_arn
}

output "security_group_id" {
  description = "Group that the service lets in."
  value       = aws_security_group.this.id
}

output "dimensions" {
  description = "Dimensions of its CloudWatch metrics (namespace AWS/ApplicationELB)."
  value = {
    load_balancer = { LoadBalancer = aws_lb.this.arn_suffix }
    targets       = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this.arn_suffix }
  }
}
