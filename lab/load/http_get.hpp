// Makes one GET, for pages that a command needs once: /v1/models, /metrics. It blocks for at most `timeout` in all.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace weir::lab::load {

/// Returns the body of a 200 answer, at most 64 MiB. Otherwise throws std::runtime_error with a sentence, or
/// std::invalid_argument if the URL or `ca` cannot be used. `ca` is as in LoadSettings.
std::string http_get(const std::string& url, std::chrono::seconds timeout = std::chrono::seconds(5),
                     const std::string& ca = "");

/// Returns the ids that an answer to GET /v1/models lists; none if it is no such answer.
std::vector<std::string> model_ids(const std::string& body);

}  // namespace weir::lab::load
