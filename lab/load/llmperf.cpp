#include "lab/load/llmperf.hpp"

#include "lab/load/report.hpp"
#include "lab/text.hpp"

namespace weir::lab::load {
namespace {

std::optional<double> share_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void Llmperf::add(const Result& result, const tasks::Task& task) {
  if (!result.ok()) return;
  if (const std::uint64_t tokens = result.stream.output_tokens(); tokens > 0) {
    itl_.push_back(std::chrono::duration<float>(result.ended - result.started).count() / static_cast<float>(tokens));
  }
  const tasks::Checked checked = tasks::check(task, result.stream.text);
  ++checked_;
  if (checked.right_number) ++right_;
  lines_ += checked.lines;
  right_lines_ += checked.right_lines;
}

std::optional<double> Llmperf::right_share() const { return share_of(right_, checked_); }

std::optional<double> Llmperf::lines_share() const { return share_of(right_lines_, lines_); }

std::optional<std::string> Llmperf::warning() const {
  const auto right = right_share();
  if (!right || *right >= least_right) return std::nullopt;
  return format(
      "only %.2f %% of the numbers were right, less than %.0f %%: the replica answers wrongly, or answers go to the "
      "wrong requests. How fast wrong answers come says little.",
      100 * *right, 100 * least_right);
}

void Llmperf::print(std::ostream& out) const {
  const auto counted_share = [](std::uint64_t part, std::uint64_t whole) {
    return format("%llu of %llu", static_cast<unsigned long long>(part), static_cast<unsigned long long>(whole)) +
           (whole > 0 ? format(" (%.1f %%)", 100 * static_cast<double>(part) / static_cast<double>(whole)) : "");
  };
  out << "Numbers    " << counted_share(right_, checked_) << " right\nLines      "
      << counted_share(right_lines_, lines_) << " were in the prompt\n";
}

void Llmperf::write(JsonWriter& json, const std::optional<Cost>& cost) const {
  json.open('{');
  cost ? write_members(json, *cost) : void(json.key("cost_per_1000_requests").null());
  load::write(json.key("itl_s"), distribution(itl_));
  json.key("right_share").exact(right_share()).key("checked").count(checked_);
  json.key("lines_share").exact(lines_share()).key("lines_checked").count(lines_).close('}');
}

}  // namespace weir::lab::load
