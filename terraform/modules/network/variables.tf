variable "name" {
  description = "Prefix of every name."
  type        = string
}

variable "region" {
  description = "Region, for the endpoints' service names."
  type        = string
}

variable "cidr" {
  description = "Address range of the VPC, /16 to /20: subnets are cut from it by 4 and 8 bits."
  type        = string
  default     = "10.40.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && can(regex("/(16|17|18|19|20)$", var.cidr))
    error_message = "cidr must be an IPv4 range from /16 to /20, e.g. 10.40.0.0/16."
  }
}

variable "zones" {
  description = "Availability zones, two or three: one private subnet in each."
  type        = list(string)

  validation {
    condition     = length(var.zones) >= 2 && length(var.zones) <= 3
    error_message = "zones must name two or three availability zones."
  }
}

variable "public_subnets" {
  description = "Whether to make public subnets, for a load balancer only: nothing in them gets a public address by itself."
  type        = bool
  default     = true
}

variable "interface_endpoints" {
  description = "AWS services reached without leaving the VPC, e.g. ecr.api. S3 and DynamoDB always are, at no charge."
  type        = set(string)
}

variable "private_subnet_tags" {
  description = "Further tags of private subnets, by which controllers find them."
  type        = map(string)
  default     = {}
}

variable "public_subnet_tags" {
  description = "Further tags of public subnets, by which controllers find them."
  type        = map(string)
  default     = {}
}

variable "kms_key_arn" {
  description = "Key of the flow logs."
  type        = string
}

variable "flow_log_days" {
  description = "Days that flow logs are kept."
  type        = number
  default     = 7
}
