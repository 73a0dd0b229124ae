#include "proxy/live/live.hpp"

#include <algorithm>
#include <utility>

#include "proxy/events/events.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/findings.hpp"

namespace weir::proxy::live {

Live::Live(fleet::Fleet& fleet, const metrics::series::Exposition& exposition, std::size_t threads,
           std::function<Surroundings()> around, Moment now, Wall time)
    : fleet_(fleet),
      exposition_(exposition),
      around_(std::move(around)),
      started_(time),
      figures_(exposition, threads, time, now),
      findings_(rules()) {}

void Live::finished(const metrics::record::RequestRecord& record, Moment now) {
  const auto figures = metrics::record::figures_of(record);
  figures_.finished(record, figures, now);
  if (record.role == metrics::Role::primary) requests_.add(record, figures, now);
}

void Live::tick(const std::string& instance, Moment now, Wall time) {
  if (now < next_) return;
  const auto before = now_.serial == 0 ? now - every : now_.at;
  const auto passed = std::max<std::int64_t>(1, (now - before + every / 2) / every);
  // The grid is kept, unless a second was missed.
  next_ = next_ + 2 * every > now ? next_ + every : now + every;
  if (next_ <= now) next_ = now + every;
  instance_ = instance;
  now_ = figures_.take(*fleet_.snapshot(), around_(), instance, static_cast<std::size_t>(passed), now, time);
  document_.reset();
  tell_findings(findings_.tick(now_));
  tell_limits();
  tell_certificate();
}

Document Live::made_of(Now& now) {
  figures_.complete(now, *fleet_.snapshot());
  return document_of(now, requests_.slowest(now.at), requests_.failed(), findings_.standing(),
                     events::ring().since(0, latest_events).events);
}

std::shared_ptr<const Document> Live::document() {
  if (!document_ && now_.serial > 0) document_ = std::make_shared<const Document>(made_of(now_));
  return document_;
}

std::shared_ptr<const Document> Live::document_of_now(Moment at) {
  if (now_.serial == 0) return nullptr;
  const auto time = now_.time + std::chrono::duration_cast<Wall::duration>(at - now_.at);
  auto now = figures_.take(*fleet_.snapshot(), around_(), instance_, 0, at, time);
  return std::make_shared<const Document>(made_of(now));
}

void Live::tell_findings(const std::vector<Findings::Change>& changes) {
  for (const auto& [begins, finding] : changes) {
    const auto lasted = fleet::in_words(now_.at - finding.since_at);
    if (begins)
      events::warn(events::What::finding, finding.who, "finding {}: {}", finding.what, finding.text);
    else
      events::info(events::What::finding, finding.who, "finding {} of '{}' is over after {}", finding.what, finding.who,
                   lasted);
  }
}

void Live::tell_limits() {
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    std::uint64_t hits = 0;
    for (const auto& loop : exposition_.loops()) hits += loop->limit_hits[i].value();
    auto& [before, last] = limits_[i];
    const auto more = hits - std::exchange(before, hits);
    if (more == 0) continue;
    if (!last || now_.at - *last >= limit_told_every) {
      const auto name = metrics::series::limit_names[i];
      events::warn(events::What::limit, name,
                   "limit '{}' was hit, {} {} in the last second (said once in ten minutes without a hit)", name, more,
                   more == 1 ? "time" : "times");
    }
    last = now_.at;
  }
}

void Live::tell_certificate() {
  constexpr std::chrono::hours soon{14 * 24};
  const auto ends = now_.weir.certificate_ends;
  if (!ends || *ends - now_.time >= soon) {
    certificate_told_.reset();
    return;
  }
  if (certificate_told_ && now_.at - *certificate_told_ < certificate_told_every) return;
  certificate_told_ = now_.at;
  const auto left = *ends - now_.time;
  if (left <= Wall::duration::zero())
    events::warn(events::What::certificate, "", "a certificate of [server.tls] has ended: clients refuse to connect");
  else
    events::warn(events::What::certificate, "", "a certificate of [server.tls] ends in {} days",
                 std::chrono::duration_cast<std::chrono::hours>(left).count() / 24);
}

}  // namespace weir::proxy::live
