variable "cluster" {
  description = "EKS cluster: name and ARN."
  type        = object({ name = string, arn = string })
}

variable "namespace" {
  description = "Namespace of the AWS Load Balancer Controller."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Service account of the controller."
  type        = string
  default     = "aws-load-balancer-controller"
}
