#include "metrics/wire/engine/objects.hpp"

namespace weir::metrics::wire {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

namespace {
constexpr double milliseconds = 1e3;
}

bool read_timings(simdjson::ondemand::object timings, Timings& into) {
  return for_each_field(timings, [&](raw_json_string key, value& part) {
    if (key == "predicted_n") {
      into.predicted = count_of(part);
    } else if (key == "prompt_n") {
      into.prompt_read = count_of(part);
    } else if (key == "cache_n") {
      into.prompt_cached = count_of(part);
    } else if (key == "prompt_ms") {
      into.figures.prefill = seconds_of(part, milliseconds);
    } else if (key == "predicted_ms") {
      into.figures.decode = seconds_of(part, milliseconds);
    } else if (key == "draft_n") {
      into.figures.draft_tokens = count_of(part);
    } else if (key == "draft_n_accepted") {
      into.figures.draft_accepted_tokens = count_of(part);
    }
    return true;
  });
}

bool read_request_metrics(value& metrics, EngineFigures& into) {
  const bool whole = for_each_field_in(metrics, [&](raw_json_string key, value& part) {
    if (key == "time_to_first_token_ms") {
      into.prefill = seconds_of(part, milliseconds);
    } else if (key == "generation_time_ms") {
      into.decode = seconds_of(part, milliseconds);
    } else if (key == "queue_time_ms") {
      into.queue = seconds_of(part, milliseconds);
    } else if (key == "mean_itl_ms") {
      into.time_per_token = seconds_of(part, milliseconds);
    } else if (key == "speculative_decoding") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "num_draft_tokens") {
          into.draft_tokens = count_of(count);
        } else if (name == "num_accepted_draft_tokens") {
          into.draft_accepted_tokens = count_of(count);
        }
        return true;
      });
    }
    return true;
  });
  if (into.queue && into.prefill) into.ttft = *into.queue + *into.prefill;
  return whole;
}

}  // namespace weir::metrics::wire
