// The steps of a lesson, shared by the lessons and the presenter.

/** Names of the steps; in a room, a lesson's name and one of these are a question. */
export const PARTS = ['guess', 'watch', 'explain', 'answer'];
