#include "metrics/wire/stream/event_template.hpp"

#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

bool EventTemplate::match(std::string_view data, EventFacts& facts) const {
  if (around_.empty() || data.size() < around_.size()) return false;
  const std::string_view around = around_;
  if (!data.starts_with(around.substr(0, split_)) || !data.ends_with(around.substr(split_))) return false;
  const std::string_view text = data.substr(split_, data.size() - around.size());
  const auto points = code_points_of_string_body(text);
  if (!points) return false;
  facts.choices.push_back({.index = index_,
                           .token = !text.empty(),
                           .output = !text.empty() && !reasoning_,
                           .finished = false,
                           .tokens = std::nullopt});
  facts.carries_choice = true;
  facts.output_chars = *points;
  facts.add_content(reasoning_ ? ContentPart::What::reasoning : ContentPart::What::text, text);
  return true;
}

void EventTemplate::remember(std::string_view data, const EventFacts& facts) {
  if (facts.plain_text.empty()) return;
  const std::size_t around = data.size() - facts.plain_text.size();
  if (around > limit) return;
  split_ = static_cast<std::size_t>(facts.plain_text.data() - data.data());
  index_ = facts.choices.front().index;
  reasoning_ = !facts.choices.front().output;
  around_.reserve(around);
  around_.assign(data.substr(0, split_));
  around_.append(data.substr(split_ + facts.plain_text.size()));
}

}  // namespace weir::metrics::wire
