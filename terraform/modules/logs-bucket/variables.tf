variable "name" {
  description = "Name of the bucket; the account's id is appended, because bucket names are global."
  type        = string
}

variable "days" {
  description = "Days that access logs and trails are kept."
  type        = number
  default     = 90

  validation {
    condition     = var.days >= 1 && floor(var.days) == var.days
    error_message = "days must be a whole number, at least 1."
  }
}
