variable "name" {
  description = "Prefix of the alarms' names."
  type        = string
}

variable "topic_arn" {
  description = "Topic that is told when an alarm begins and when it ends."
  type        = string
}

variable "alarms" {
  description = "Alarms by name. Each watches one of `metrics`, or an `expression` over them by their ids, and goes off after `minutes` minutes above `above` or below `below`. Missing data is no alarm, unless `missing_is_bad`."
  type = map(object({
    description    = string
    above          = optional(number)
    below          = optional(number)
    minutes        = number
    missing_is_bad = optional(bool, false)
    expression     = optional(string)
    metrics = map(object({
      namespace  = string
      name       = string
      stat       = string
      dimensions = map(string)
    }))
  }))

  validation {
    condition     = alltrue([for alarm in values(var.alarms) : (alarm.above == null) != (alarm.below == null)])
    error_message = "Each alarm has exactly one of above and below."
  }
  validation {
    condition     = alltrue([for alarm in values(var.alarms) : alarm.expression != null || length(alarm.metrics) == 1])
    error_message = "An alarm over several metrics needs an expression that says how they make up one figure."
  }
}
