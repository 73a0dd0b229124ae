#include "lab/experiment/objective.hpp"

#include "config/show.hpp"
#include "lab/load/course.hpp"
#include "lab/text.hpp"

namespace weir::lab::experiment {
namespace {

std::optional<double>* threshold_of(Objective& objective, std::string_view key) {
  if (key == "ttft" || key == "ttft_client") return &objective.ttft;  // For a client they are the same.
  if (key == "tpot") return &objective.tpot;
  return key == "e2e" ? &objective.e2e : nullptr;
}

std::optional<double> seconds_in(std::string_view text) {
  const auto seconds = number_in<double>(text);
  return seconds && *seconds > 0 && *seconds <= 1e6 ? seconds : std::nullopt;
}

}  // namespace

config::Parsed<Objective> parse_objective(std::string_view text) {
  Objective objective;
  std::string_view rest = text;
  while (true) {
    const auto part = rest.substr(0, rest.find(','));
    const auto equals = part.find('=');
    auto* const threshold = threshold_of(objective, part.substr(0, equals));
    const auto seconds = equals == std::string_view::npos ? std::nullopt : seconds_in(part.substr(equals + 1));
    if (!threshold || !seconds || *threshold) {
      return config::Problem{"\"" + config::one_line(text) +
                             "\" must be thresholds in seconds such as ttft=1,tpot=0.05; known are ttft, tpot and e2e, "
                             "each once"};
    }
    *threshold = seconds;
    if (part.size() == rest.size()) return objective;
    rest.remove_prefix(part.size() + 1);
  }
}

bool meets(const Objective& objective, const load::Result& result) {
  if (!result.ok()) return false;
  const double sent = load::seconds_of(result.begun());
  if (objective.ttft) {
    const auto first = result.stream.answer.first_token;
    if (!first || load::seconds_of(*first) - sent > *objective.ttft) return false;
  }
  if (objective.tpot && result.stream.tpot().value_or(0) > *objective.tpot) return false;
  return !objective.e2e || load::seconds_of(result.ended) - sent <= *objective.e2e;
}

}  // namespace weir::lab::experiment
