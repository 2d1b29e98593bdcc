variable "name" {
  description = "Name of the role."
  type        = string
}

variable "cluster" {
  description = "EKS cluster: name and ARN."
  type        = object({ name = string, arn = string })
}

variable "namespace" {
  description = "Namespace of the service account."
  type        = string
}

variable "service_account" {
  description = "Service account whose pods get the role."
  type        = string
}

variable "policies" {
  description = "What the role may do: name -> IAM policy as JSON."
  type        = map(string)
  default     = {}
}

variable "managed" {
  description = "ARNs of AWS's own policies, for AWS's own components."
  type        = set(string)
  default     = []
}
