// Embeddings, rerank and score, as vLLM, SGLang, llama.cpp, TEI and Infinity serve them. Nothing is generated: an
// answer is one document, and its usage tells of the prompts.
#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire {

namespace {

/// Answers are no streams. Whatever comes as one is relayed.
bool read_event(std::string_view, EventFacts& facts) {
  facts.carries_choice = true;
  return true;
}

using In = RequestPlace;
using Source = RequestSource;

constexpr Route embeddings_routes[] = {
    {"/v1/embeddings", Streams::never}, {"/embeddings", Streams::never}, {"/embed", Streams::never}};
constexpr RequestMember embeddings_request[] = {
    {In::root, "input", In::prompt},
    {In::root, "inputs", In::prompt, Source::text},        // TEI's name.
    {In::root, "messages", In::messages, Source::suffix},  // vLLM takes these for prompts with images.
    {In::prompt, "text", In::text},
};

constexpr Route rerank_routes[] = {{"/v1/rerank", Streams::never},
                                   {"/v2/rerank", Streams::never},
                                   {"/rerank", Streams::never},
                                   {"/v1/reranking", Streams::never}};
constexpr RequestMember rerank_request[] = {
    {In::root, "query", In::prompt},
    {In::root, "documents", In::prompt, Source::text},
    {In::root, "texts", In::prompt, Source::suffix},  // TEI's name.
    {In::prompt, "text", In::text},
};

constexpr Route score_routes[] = {{"/v1/score", Streams::never}, {"/score", Streams::never}};
constexpr RequestMember score_request[] = {
    {In::root, "text_1", In::prompt},
    {In::root, "text_2", In::prompt, Source::text},
};

constexpr AnswerMember answer[] = {
    {AnswerPlace::root, "usage", AnswerPlace::usage},
    counts(AnswerPlace::usage, "prompt_tokens", &AnswerCounts::prompt),
    counts(AnswerPlace::usage, "total_tokens", &AnswerCounts::total),
};

}  // namespace

constinit const Dialect dialects::openai_embeddings{
    .api = Api::openai_embeddings,
    .routes = embeddings_routes,
    .request_members = embeddings_request,
    .continues_prompt = false,
    .read_event = read_event,
    .end = StreamEnd::any,
    .answer_members = answer,
};

constinit const Dialect dialects::rerank{
    .api = Api::rerank,
    .routes = rerank_routes,
    .request_members = rerank_request,
    .continues_prompt = false,
    .read_event = read_event,
    .end = StreamEnd::any,
    .answer_members = answer,
};

constinit const Dialect dialects::score{
    .api = Api::score,
    .routes = score_routes,
    .request_members = score_request,
    .continues_prompt = false,
    .read_event = read_event,
    .end = StreamEnd::any,
    .answer_members = answer,
};

}  // namespace weir::metrics::wire
