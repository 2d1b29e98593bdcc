variable "name" {
  description = "Name of the load balancer and its target group."
  type        = string
}

variable "vpc_id" {
  description = "VPC of load balancer and targets."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the load balancer: public ones for an internet-facing one."
  type        = list(string)
}

variable "internal" {
  description = "Whether only the VPC and networks joined to it reach the load balancer."
  type        = bool
  default     = true
}

variable "client_cidrs" {
  description = "IPv4 ranges of the clients."
  type        = list(string)

  validation {
    condition     = length(var.client_cidrs) > 0 && alltrue([for cidr in var.client_cidrs : can(cidrhost(cidr, 0))])
    error_message = "client_cidrs must be IPv4 ranges of the clients, e.g. 10.0.0.0/8; at least one."
  }
}

variable "certificate_arn" {
  description = "ACM certificate of the name that clients use."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of an ACM certificate: clients send keys and prompts, so there is no plain HTTP."
  }
}

variable "target_port" {
  description = "Port of the service."
  type        = number
}

variable "health_path" {
  description = "Path that answers 200 when a target can serve requests."
  type        = string
}

variable "idle_timeout_s" {
  description = "Longest silence on a connection; at least the service's longest request."
  type        = number
  default     = 600
}

variable "logs_bucket" {
  description = "Bucket of the access logs, under load-balancer/."
  type        = string
}
