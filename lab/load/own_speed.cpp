#include "lab/load/own_speed.hpp"

#include <algorithm>

#include "lab/text.hpp"

namespace weir::lab::load {
namespace {

constexpr double most_lag = 0.05;  // A share of what is measured.
constexpr double most_cpu = 0.8;

}  // namespace

std::optional<std::string> too_slow(const OwnSpeed& own, const Tally& measured) {
  const char* const remedy =
      "Give it a CPU of its own, or divide the load among several processes on other machines; until then these "
      "figures are partly the tool's.";
  if (measured.ok() == 0) return std::nullopt;  // There are no figures that it could have spoilt.
  if (own.cpu_share > most_cpu) {
    return fmt::format("this tool computed for {:.0f} % of the time, so it is itself what is slow. {}",
                       100 * own.cpu_share, remedy);
  }
  const auto lag = distribution(own.lags);
  if (!lag) return std::nullopt;
  const auto slow = [&](const char* name, const std::optional<Distribution>& of) -> std::optional<std::string> {
    if (!of || lag->p90 <= most_lag * of->p50) return std::nullopt;
    return fmt::format("a tenth of the time this tool read answers {:.2f} ms late or more, against a median {} of "
                       "{:.2f} ms. {}", 1e3 * lag->p90, name, 1e3 * of->p50, remedy);
  };
  if (auto sentence = slow("TPOT", measured.tpot())) return sentence;
  return slow("TTFT", measured.ttft());
}

std::string own_line(const OwnSpeed& own) {
  const auto lag = distribution(own.lags);
  if (!lag) return "";
  return fmt::format("This tool  loop lag {:.2f} ms p50, {:.2f} ms p95, {:.2f} ms at most; {:.0f} % of a CPU\n",
                     1e3 * lag->p50, 1e3 * lag->p95, 1e3 * lag->max, 100 * own.cpu_share);
}

}  // namespace weir::lab::load
